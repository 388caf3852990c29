//! Notices and articles, written for these tests: how their language distinguishes them, and what is extracted from the
//! page.

use super::{VOCABULARY, is_notice};
use crate::record::Body;
use crate::text::{Analyzer, Extraction, Settings};

/// Notices of 500 to 900 characters, by what they are like.
const NOTICES: [(&str, &str); 13] = [
    (
        "english, partners",
        "We value your privacy. We and our 812 partners store and/or access information on a device, such as cookies, \
     and process personal data, such as unique identifiers and standard information sent by a device, for \
     personalised advertising and content, advertising and content measurement, audience research and services \
     development. With your permission we and our partners may use precise geolocation data and identification \
     through device scanning. You may click to consent to our and our 812 partners' processing as described \
     above. Alternatively you may access more detailed information and change your preferences before consenting \
     or to refuse consenting. Please note that some processing of your personal data may not require your \
     consent, but you have a right to object to such processing. Your preferences will apply to this website \
     only. You can change your preferences or withdraw your consent at any time by returning to this site and \
     clicking the \"Privacy\" button at the bottom of the webpage.",
    ),
    (
        "english, kinds of cookies",
        "This website uses cookies. Cookies are small text files that are placed on your computer by websites that \
     you visit. They are widely used in order to make websites work, or work more efficiently, as well as to \
     provide information to the owners of the site. Strictly necessary cookies: These cookies are essential for \
     the website to function and cannot be switched off. They are usually only set in response to actions made by \
     you, such as setting your privacy preferences, logging in or filling in forms. Performance cookies: These \
     cookies allow us to count visits and traffic sources so we can measure and improve the performance of our \
     site. They help us to know which pages are the most and least popular. Targeting cookies: These cookies may \
     be set through our site by our advertising partners. They may be used by those companies to build a profile \
     of your interests and show you relevant adverts on other sites. Confirm my choices. Accept all. Reject all.",
    ),
    (
        "english, short",
        "We use cookies and other tracking technologies to improve your browsing experience on our website, to show \
     you personalised content and targeted ads, to analyse our website traffic, and to understand where our \
     visitors are coming from. By browsing our website, you consent to our use of cookies and other tracking \
     technologies. You can change your preferences at any time in the settings of your browser. For more \
     information about how we use your personal data, which third parties we share it with and what rights you \
     have, please read our privacy policy and our cookie policy. If you do not agree, some features of the site \
     may not be available to you.",
    ),
    (
        "english, consent or pay",
        "Choose how you want to use our site. Subscribe and read without advertising and without tracking for 4.99 a \
     month, cancel any time. Or read on for free with advertising: we and our advertising partners use cookies, \
     identifiers and similar technologies to store information on your device and read it, to show you \
     personalised ads and content, and to measure how well they perform. To do so we need your consent, which is \
     voluntary and which you can withdraw at any time with effect for the future through the link at the end of \
     each page. Details on purposes, on recipients of your data and on storage periods are in our privacy notice. \
     Already a subscriber? Log in here.",
    ),
    (
        "english, accept all",
        "By clicking \"Accept All Cookies\", you agree to the storing of cookies on your device to enhance site \
     navigation, analyze site usage, and assist in our marketing efforts. When you visit any website, it may \
     store or retrieve information on your browser, mostly in the form of cookies. This information might be \
     about you, your preferences or your device and is mostly used to make the site work as you expect it to. The \
     information does not usually directly identify you, but it can give you a more personalized web experience. \
     Because we respect your right to privacy, you can choose not to allow some types of cookies. Click on the \
     different category headings to find out more and change our default settings. However, blocking some types \
     of cookies may impact your experience of the site and the services we are able to offer.",
    ),
    (
        "english, public service",
        "Your cookie settings. We'd like to set additional cookies to understand how you use our services, remember \
     your settings and improve them for everybody. We also use cookies set by other organisations to deliver \
     content from their services, such as videos and maps. You have the right to refuse. If you refuse, we only \
     set the cookies that are needed for the service to work, and you may see fewer of the features that depend \
     on others. We do not sell what we learn about you, and we delete it after thirteen months. You can change \
     your mind at any time on our cookies page, which also lists every cookie by its name, its purpose and the \
     time after which it expires. Accept additional cookies. Reject additional cookies. View cookies.",
    ),
    (
        "german, partners",
        "Wir und unsere 214 Partner speichern und/oder greifen auf Informationen auf einem Gerät zu, z. B. auf \
     eindeutige Kennungen in Cookies, um personenbezogene Daten zu verarbeiten. Sie können Ihre Präferenzen \
     akzeptieren oder verwalten, einschließlich Ihres Widerspruchsrechts bei berechtigtem Interesse. Klicken Sie \
     dazu bitte unten oder besuchen Sie zu einem beliebigen Zeitpunkt die Seite mit den Datenschutzrichtlinien. \
     Diese Präferenzen werden unseren Partnern signalisiert und haben keinen Einfluss auf die Browserdaten. Wir \
     und unsere Partner führen die folgenden Datenverarbeitungsvorgänge durch: Genaue Standortdaten und \
     Identifikation durch Scannen von Endgeräten, personalisierte Anzeigen und Inhalte, Messung von Werbeleistung \
     und der Performance von Inhalten, Zielgruppenforschung sowie Entwicklung und Verbesserung der Angebote.",
    ),
    (
        "german, short",
        "Diese Website verwendet Cookies. Wir verwenden Cookies, um Inhalte und Anzeigen zu personalisieren, \
     Funktionen für soziale Medien anbieten zu können und die Zugriffe auf unsere Website zu analysieren. \
     Außerdem geben wir Informationen zu Ihrer Verwendung unserer Website an unsere Partner für soziale Medien, \
     Werbung und Analysen weiter. Unsere Partner führen diese Informationen möglicherweise mit weiteren Daten \
     zusammen, die Sie ihnen bereitgestellt haben oder die sie im Rahmen Ihrer Nutzung der Dienste gesammelt \
     haben. Mit einem Klick auf „Alle akzeptieren“ willigen Sie in diese Verarbeitung ein. Sie können Ihre \
     Einwilligung jederzeit mit Wirkung für die Zukunft widerrufen. Nur notwendige Cookies verwenden. Auswahl \
     erlauben. Details zeigen.",
    ),
    (
        "german, consent or pay",
        "Mit Werbung weiterlesen: Besuchen Sie unsere Seite wie gewohnt mit Werbung und Tracking. Details zur \
     Verarbeitung finden Sie in der Datenschutzerklärung und im Privacy Center. Ihre Zustimmung ist jederzeit \
     widerrufbar. Oder lesen Sie im Pur-Abo: Nutzen Sie unser Angebot ganz ohne Werbetracking und praktisch \
     werbefrei für 4,99 Euro im Monat. Tracking: Zur Verbesserung und Finanzierung unseres Webangebots arbeiten \
     wir mit Drittanbietern zusammen. Diese Drittanbieter und wir erheben und verarbeiten personenbezogene Daten \
     auf unseren Plattformen. Mit auf Ihrem Gerät gespeicherten Cookies, persönlichen Identifikatoren wie \
     Gerätekennungen oder IP-Adressen sowie basierend auf Ihrem individuellen Nutzungsverhalten können wir \
     Informationen auf einem Gerät speichern und abrufen, Anzeigen und Inhalte personalisieren und messen und \
     Erkenntnisse über Zielgruppen gewinnen.",
    ),
    (
        "german, minors",
        "Datenschutzeinstellungen. Wir benötigen Ihre Zustimmung, bevor Sie unsere Website weiter besuchen können. \
     Wenn Sie unter 16 Jahre alt sind und Ihre Zustimmung zu freiwilligen Diensten geben möchten, müssen Sie Ihre \
     Erziehungsberechtigten um Erlaubnis bitten. Wir verwenden Cookies und andere Technologien auf unserer \
     Website. Einige von ihnen sind essenziell, während andere uns helfen, diese Website und Ihre Erfahrung zu \
     verbessern. Personenbezogene Daten können verarbeitet werden (z. B. IP-Adressen), z. B. für personalisierte \
     Anzeigen und Inhalte oder Anzeigen- und Inhaltsmessung. Weitere Informationen über die Verwendung Ihrer \
     Daten finden Sie in unserer Datenschutzerklärung. Sie können Ihre Auswahl jederzeit unter Einstellungen \
     widerrufen oder anpassen. Alle akzeptieren. Speichern. Nur essenzielle Cookies akzeptieren.",
    ),
    (
        "chinese, partners",
        "我们重视您的隐私。我们和我们的合作伙伴使用Cookie及类似技术在您的设备上存储和读取信息，并处理您的个人信息，\
     例如唯一标识符、浏览记录和设备发送的标准信息，用于提供个性化的广告和内容、衡量广告和内容的效果、了解受众以及开发\
     和改进产品。经您许可，我们和合作伙伴可能会使用精确的地理位置数据，并通过扫描设备进行识别。您可以点击“全部接受”\
     ，同意我们和合作伙伴按照上述方式处理您的数据；您也可以点击“管理选项”，在同意或拒绝之前查看更详细的信息并更改您\
     的偏好设置。请注意，对您个人信息的某些处理可能不需要征得您的同意，但您有权反对此类处理。您的偏好设置仅适用于本网\
     站。您可以随时返回本网站，点击页面底部的“隐私设置”按钮，更改您的偏好或撤回您的同意。严格必要的Cookie：这\
     些Cookie是网站正常运行所必需的，无法在我们的系统中关闭，通常仅在您进行登录、填写表单或设置隐私偏好等操作时\
     才会设置。性能Cookie：这些Cookie使我们能够统计访问量和流量来源，以便衡量和改进网站的性能，了解哪些页\
     面最受欢迎。广告Cookie：这些Cookie可能由我们的广告合作伙伴通过本网站设置，用于建立您的兴趣档案，并在\
     其他网站上向您展示相关广告。如果您不允许使用这些Cookie，您看到的广告将与您的兴趣关联较小。欲了解更多信息，\
     请阅读我们的隐私政策和Cookie政策。",
    ),
    (
        "chinese, traditional",
        "本網站使用Cookie以提供您更好的瀏覽體驗。我們使用Cookie及類似技術分析網站流量、記住您的偏好設定，並向\
     您顯示個人化的內容與廣告。我們會將您使用本網站的資訊提供給社群媒體、廣告及分析合作夥伴，這些合作夥伴可能會將這些\
     資訊與您提供給他們的其他資料合併使用。點選「全部接受」即表示您同意我們使用所有Cookie；點選「拒絕」則僅使用\
     必要的Cookie。您可以隨時在Cookie設定中變更您的選擇或撤回同意。必要的Cookie：這類Cookie是\
     網站運作所必需，無法關閉，例如登入、填寫表單或設定隱私偏好時使用。分析Cookie：這類Cookie讓我們能夠計\
     算造訪次數與流量來源，以便衡量並改善網站效能。廣告Cookie：這類Cookie可能由我們的廣告合作夥伴設定，用\
     來建立您的興趣檔案，並在其他網站上向您顯示相關廣告。若您不允許這類Cookie，您看到的廣告將較不符合您的興趣。\
     如需了解我們如何蒐集、處理及利用您的個人資料，以及您依個人資料保護法得行使之權利，請參閱我們的隱私權政策與Coo\
     kie政策。若您對我們的做法有任何疑問，歡迎隨時與我們的客服人員聯繫，我們將儘速回覆您的問題。本聲明最後更新於今\
     年三月，舊版本可於頁面底部下載。",
    ),
    (
        "chinese, policy",
        "Cookie使用说明。为了让您更顺畅地使用本网站，我们会在您的电脑或移动设备上存储名为Cookie的小数据文件。\
     Cookie通常包含标识符、站点名称以及一些号码和字符。借助于Cookie，网站能够存储您的偏好或购物篮内的商品\
     等数据。我们不会将Cookie用于本政策所述目的之外的任何用途。您可根据自己的偏好管理或删除Cookie。您可以\
     清除计算机上保存的所有Cookie，大部分网络浏览器都设有阻止Cookie的功能。但如果您这么做，则需要在每一次\
     访问我们的网站时亲自更改用户设置。除Cookie外，我们还会在网站上使用网站信标和像素标签等其他同类技术，帮助我\
     们了解您的产品或服务偏好并改善客户服务。我们与第三方广告合作伙伴共享部分统计数据，以便向您展示更符合您兴趣的内容\
     。点击“同意”，即表示您接受我们按照隐私政策处理您的个人信息；点击“仅必要”，我们将不会启用分析和广告Cooki\
     e。您的选择将保存十二个月，期间您可以随时在页面底部的“Cookie设置”中撤回。未满十四周岁的用户，请在监护人\
     的陪同下阅读本说明并作出选择。如对本说明有疑问，您可以通过页面底部的联系方式与我们的隐私团队联系，我们将在十五个\
     工作日内答复您的请求。",
    ),
];

/// Articles that have words in common with notices.
const ARTICLES: [(&str, &str); 11] = [
    (
        "fines for cookies",
        "Regulators across Europe fined three publishers on Thursday for placing cookies on readers' devices without \
     consent. The companies had hidden the button to reject tracking behind two further screens, the data \
     protection authority said, while a single click was enough to accept it. Advertising partners received \
     identifiers and browsing histories within seconds of the first visit. The largest fine, 40 million euros, \
     went to the owner of eleven regional newspapers. Its lawyers said that it would appeal, and that the rules \
     had changed twice since the banner was designed. Consumer groups welcomed the decision but asked why it took \
     four years. \"People were never given a choice,\" said their spokeswoman in Brussels. The authority has now \
     ordered the publishers to delete the profiles that were built from the data, and to report by the end of \
     March how personalised advertising is sold on their sites. A study by two universities found last year that \
     nine of ten visitors accept whatever they are shown, and that most of them could not say afterwards to what \
     they had agreed.",
    ),
    (
        "a court on consent",
        "A court in Munich ruled on Monday that a publisher may ask its readers to pay or to accept advertising. The \
     judges found that consent can be free if the price is reasonable, and that four euros a month are. Privacy \
     groups had argued that nobody reads on when the choice is money or data. \"You cannot sell a fundamental \
     right,\" their lawyer told us after the hearing. The publisher's partners in the advertising industry, some \
     two hundred, receive identifiers through cookies when a reader agrees. The court asked for one change: the \
     button to decline must be as large as the other. Both sides may appeal within a month. Analysts expect that \
     other papers will follow, since income from personalised advertising has fallen by a third since the new \
     settings of two browsers were introduced, and since readers who pay stay for three years on average.",
    ),
    (
        "how to delete cookies",
        "If a page will not load, you can often help yourself by clearing your cookies. Open the menu of your \
     browser, choose settings and then privacy. You will find a list of everything that websites have stored on \
     your device. Select all and delete. You will have to log in again afterwards, because your shops and your \
     mail use cookies to remember you. We tested this with five browsers on three computers, and it took us less \
     than a minute each time. If the page still does not load, restart your router and your computer. Call your \
     provider only when all of this has failed. Our readers tell us that two of three calls could have been \
     avoided that way. Write to us if you know a better trick; the ten best ones will be printed in our next \
     issue.",
    ),
    (
        "a blog without trackers",
        "Last month we threw every tracker out of this blog. We used to run an analytics service, because everybody \
     does, and we never looked at it. Then a reader asked us why we needed his consent for a page about \
     gardening, and we had no answer. So the banner is gone, and so are the cookies. We count visits from the log \
     of our server, which is enough for us: eleven thousand in a month, most of them for the article on tomatoes. \
     The pages load in half the time. Our host told us that it was the first such request in years. Two other \
     bloggers have followed, and if you want to do the same, here is what we did, step by step. First, we removed \
     the script from the template. Second, we replaced the embedded videos by a picture with a link. Third, we \
     moved the fonts to our own server. All of it took an evening, and the dog got his walk late.",
    ),
    (
        "a recipe for cookies",
        "These are the cookies our grandmother used to bake every December, and we have never found a better recipe. \
     You need half a pound of butter, and you have to choose good chocolate, because you will taste it. Set your \
     oven to 180 degrees; our old one needs the highest setting. Beat the butter with the sugar until it is pale, \
     then add the eggs one by one. If you prefer them chewy, take your cookies out when the edges turn brown but \
     the middle still looks soft. We like to leave ours on the tray for ten minutes. You can freeze the dough for \
     three months, and your friends will never know. Share your cookies with your neighbours, and tell us in the \
     comments which nuts you chose. The children will accept broken ones, too, and we always make more than we \
     need for that very purpose.",
    ),
    (
        "a bakery's offer",
        "Our bakery on the corner of Mill Street turns ten this month, and we want to thank you with a box of \
     cookies. Choose any twelve from the shelf on Saturday and pay for ten; partners of our loyalty club choose \
     thirteen. If you prefer to order, you can do so in our shop or by telephone until Thursday. We accept cards \
     again, now that the line has been repaired. Our new oven has more settings than a piano has keys, and we \
     agreed not to tell you what came out of it on the first morning. You may measure our progress by the queue. \
     Bring your children, bring your neighbours, and bring your own bags, please.",
    ),
    (
        "how to use an archive",
        "About this archive. The library keeps the newspapers of the county since 1811. You can search them by name, \
     place and date, and order copies of single pages for a small fee. Readers with a card of any partner library \
     log in with its number. We ask you to name the source when you publish a page. Scans are made from \
     microfilm, and we know that some of them are hard to read; tell us which, and we will look for a better \
     original. The search engine was built by students of the university and analyses the text of two million \
     pages each night. It finds names even where single letters are wrong. Please choose the narrowest period \
     that you can, because the machine is as old as the students.",
    ),
    (
        "local news",
        "The committee has published its report on the harbour, and the mayor said that, after years of delay, the \
     works would begin in the spring of next year. Engineers found that sediment had reduced the depth of the \
     northern channel by nearly two metres. Ferry companies welcomed the decision but asked for guarantees about \
     summer timetables. \"We need to know by Easter when our ships may call,\" the owner of the largest one told \
     us. The cost of forty million will be shared with the region, which has to agree to it by June. Partners \
     from the Netherlands will measure the current for a year. You can see the plans in the town hall until the \
     end of the month, and your comments are welcome.",
    ),
    (
        "german, a court on consent",
        "Der Europäische Gerichtshof hat am Dienstag die Regeln für Cookies verschärft. Wer Nutzer auf seiner Seite \
     verfolgt, braucht dafür eine ausdrückliche Einwilligung; ein voreingestelltes Häkchen reicht nicht. Geklagt \
     hatte der Bundesverband der Verbraucherzentralen gegen einen Anbieter von Gewinnspielen, der die Zustimmung \
     zu Werbung und Analyse vorausgesetzt hatte. Die Richter stellten klar, dass es keine Rolle spielt, ob \
     personenbezogene Daten betroffen sind. Verlage und Werbewirtschaft reagierten enttäuscht. Nach ihren Angaben \
     lehnt jeder dritte Besucher ab, wenn er gleich zu Beginn gefragt wird. Datenschützer begrüßten das Urteil \
     und forderten die Bundesregierung auf, das Telemediengesetz anzupassen. Bis dahin bleibt unklar, welche \
     Einstellungen im Browser genügen. Ein Sprecher des Ministeriums sagte, ein Entwurf werde im Herbst \
     vorgelegt, und Anbieter hätten dann ein Jahr Zeit.",
    ),
    (
        "german, how to delete cookies",
        "Cookies löschen: So geht es auf dem Handy. Wer sein Smartphone schneller machen will, sollte ab und zu \
     aufräumen. Öffnen Sie die Einstellungen und wählen Sie Ihren Browser. Unter Datenschutz finden Sie den Punkt \
     Websitedaten. Dort liegen neben Cookies auch zwischengespeicherte Bilder, die viel Platz brauchen. Tippen \
     Sie auf Löschen. Danach müssen Sie sich auf vielen Seiten neu anmelden, halten Sie also Ihre Passwörter \
     bereit. Im Test mit sechs Geräten wurden so im Schnitt zwei Gigabyte frei. Am meisten Platz belegen \
     allerdings Videos aus Nachrichten, die man besser auf den Rechner überträgt. Ein Neustart am Ende schadet \
     nicht, sagt der Leiter des Testlabors. Wer das zweimal im Jahr macht, kann den Kauf eines neuen Geräts um \
     ein Jahr verschieben.",
    ),
    (
        "chinese, fines for apps",
        "国家网信办周四通报了一批违法收集个人信息的应用程序。通报说，其中十七款应用在用户同意之前就读取了设备标识符，并将\
     浏览记录提供给广告合作伙伴，用于个性化推荐。另有九款应用没有提供关闭定向广告的选项，拒绝授权后反复弹窗，影响用户\
     正常使用。监管部门要求相关企业在十五个工作日内完成整改，逾期未改的将予以下架。业内人士认为，随着个人信息保护法的\
     实施，第三方软件开发包成为治理的重点，许多中小企业并不清楚自己的应用究竟向谁发送了数据。中国政法大学一位教授表示\
     ，隐私政策写得再长，如果用户没有真正的选择，同意也就失去了意义。他建议参照欧洲的做法，对Cookie和类似技术作\
     出专门规定，明确哪些用途属于必要，哪些需要单独同意。多家企业回应称已经开始整改，将在新版本中增加拒绝按钮，并公布\
     合作的第三方名单。消费者协会提醒，安装应用时应仔细查看权限说明，不要轻易授权通讯录、位置和麦克风，发现问题可以拨\
     打热线举报。去年全年，协会共受理此类投诉四万余件，比前年增长三成，其中近一半与弹窗广告有关。专家预计，今年下半年\
     还将出台配套的国家标准。",
    ),
];

/// An article of each language that has nothing to do with cookies.
const STORIES: [(&str, &str); 3] = [
    (
        "english",
        "Dredging of the northern channel begins in spring, the harbour authority announced on Tuesday. Engineers had \
     found that sediment reduced its depth by nearly two metres. Ferry companies welcomed the decision but asked for guarantees \
     about summer timetables. The cost of forty million is shared with the region, whose council votes on it in June. Fishermen \
     fear for the herring, which spawns in the shallows, and want the work to rest from March to May. Large ships have to take the \
     southern channel for eighteen months, which adds twenty minutes to each crossing. Two barges from Rotterdam are on their way.",
    ),
    (
        "german",
        "Im Frühjahr beginnt die Vertiefung der nördlichen Fahrrinne, teilte die Hafenbehörde am Dienstag mit. Ingenieure \
     hatten festgestellt, dass Schlick ihre Tiefe um fast zwei Meter verringert hat. Die Reedereien begrüßten den Beschluss, \
     forderten aber Garantien für den Sommerfahrplan. Die Kosten von vierzig Millionen teilt sich die Stadt mit dem Land, dessen \
     Parlament im Juni abstimmt. Die Fischer sorgen sich um den Hering, der im flachen Wasser laicht. Große Schiffe müssen achtzehn \
     Monate lang durch die südliche Rinne fahren, was jede Überfahrt um zwanzig Minuten verlängert. Zwei Bagger sind unterwegs.",
    ),
    (
        "chinese",
        "港务局周二宣布，北航道的疏浚工程将于明年春季开始。工程师发现，淤泥使航道深度减少了近两米。渡轮公司对这一决定表示欢迎，\
     但要求保证夏季班次不受影响。四千万元的费用由市里和省里分担，省人大将于六月表决。渔民担心在浅水区产卵的鲱鱼，希望三月至五月停工。\
     工程预计持续十八个月，期间大型船只须绕行南航道，航程增加约二十分钟。两艘挖泥船已经从鹿特丹出发，预计月底抵达。港口去年吞吐量为\
     三百二十万吨，其中六成经由北航道。航运公会表示，如果不疏浚，五年之内万吨轮将无法靠泊。附近居民则担心夜间施工的噪音，居委会要求\
     晚上十点以后停止作业。环保局将在航道两侧设立六个监测点，每周公布水质数据。淤泥经检测后用于填筑西岸的防波堤，不再运往外海倾倒。\
     市政府还计划在老码头修建一座展览馆，介绍港口一百二十年的历史。施工期间，渡轮票价维持不变，乘客可以在官方网站查询最新的班次。\
     港务局局长说，这是三十年来规模最大的一次疏浚，完工之后航道可以全天通航，不必再等候潮水，预计每年能为航运企业节省两千万元。",
    ),
];

fn extracted(page: &str) -> (String, Extraction) {
    let analyzer = Analyzer::new(&Settings::default()).unwrap();
    let mut buffer = String::new();
    let normal = analyzer.normalize(&Body::Html(page.into()), &mut buffer).unwrap();
    (normal.text.to_owned(), normal.extraction)
}

/// Puts every third sentence, as it ends in the language, into a paragraph of its own.
fn paragraphs(text: &str) -> String {
    let sentences: Vec<&str> = text.split_inclusive(['。', '.', '！']).collect();
    sentences.chunks(3).map(|some| ["<p>", &some.concat(), "</p>"].concat()).collect()
}

fn normal(text: &str) -> String {
    let analyzer = Analyzer::new(&Settings::default()).unwrap();
    let mut buffer = String::new();
    analyzer.normalize(&Body::Text(text.into()), &mut buffer).unwrap().text.to_owned()
}

/// The last words of a text, as they are in a page.
fn last_words(text: &str) -> String {
    let text = normal(text);
    let from = text.char_indices().rev().nth(11).map_or(0, |(at, _)| at);
    text[from..].to_owned()
}

/// Notices as they come, and three twice as long: of 500 to 1,500 characters.
fn notices() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        NOTICES.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    for (one, other) in [(0, 1), (6, 7), (10, 12)] {
        all.push((format!("{}, long", NOTICES[one].0), format!("{} {}", NOTICES[one].1, NOTICES[other].1)));
    }
    all
}

fn banner(notice: &str) -> String {
    let buttons = "<button>OK</button> <a href=/p>Details</a>";
    format!("<div class=m7 role=dialog><div><h2>Cookies</h2>{}</div><div>{buttons}</div></div>", paragraphs(notice))
}

#[test]
fn notices_are_distinguished_from_articles_by_their_language() {
    for (name, text) in notices() {
        assert!(is_notice(&text), "{name}");
        let length = text.chars().count();
        assert!((480..2_000).contains(&length), "{name}: {length} characters");
    }
    for (name, text) in ARTICLES.iter().chain(&STORIES) {
        assert!(!is_notice(text), "{name}");
    }
    assert!(!is_notice(&NOTICES.map(|(_, text)| text).concat()), "too long for a notice");
}

#[test]
fn the_article_beside_a_notice_is_found() {
    let mut found_alone = 0;
    for (name, notice) in notices() {
        for (language, story) in STORIES {
            let banner = banner(&notice);
            let article = format!("<article><h1>Harbour</h1>{}</article>", paragraphs(story));
            for page in [
                format!("<body>{article}{banner}</body>"),
                format!("<body>{banner}<main>{article}</main></body>"),
                format!("<body><div><div><div>{}</div></div>{banner}</div></body>", paragraphs(story)),
            ] {
                let (text, extraction) = extracted(&page);
                assert!(text.contains(&last_words(story)), "{name}, {language}: {text}");
                // Readability takes a short Chinese article together with what is beside it.
                let is_alone = extraction == Extraction::Main && !text.contains(&last_words(&notice));
                assert!(is_alone || language == "chinese", "{name}, {language}, {}: {text}", extraction.name());
                found_alone += u32::from(is_alone);
            }
        }
    }
    assert!(found_alone >= 101, "{found_alone} of 144 articles without the notice");
}

#[test]
fn an_article_in_unusual_markup_is_not_lost_to_a_notice() {
    for (name, notice) in notices() {
        for (language, story) in STORIES {
            let lines = story.replace(['。', '.'], "<br>");
            let pages = [
                format!("<body><footer>{lines}</footer>{}</body>", banner(&notice)),
                format!("<body>{}<table><tr><td><font>{lines}</font></td></tr></table></body>", banner(&notice)),
                format!("<body><aside class=comment>{lines}</aside><article>{}</article></body>", paragraphs(&notice)),
            ];
            for page in pages {
                let (text, _) = extracted(&page);
                let end = last_words(&lines.replace("<br>", " "));
                assert!(text.contains(end.trim()), "{name}, {language}: {text}");
            }
        }
    }
}

#[test]
fn a_page_without_an_article_is_read_whole() {
    let links = "<li><a href=/x>Sports and weather of the week</a></li>".repeat(30);
    for (name, notice) in notices() {
        let page = format!("<body><div>{links}</div><article>{}</article></body>", paragraphs(&notice));
        let (text, extraction) = extracted(&page);
        assert_eq!(extraction, Extraction::AllFallback, "{name}: {text}");
        assert!(text.contains("weather") && text.contains(&last_words(&notice)), "{name}: {text}");
    }
}

#[test]
fn articles_about_cookies_stay_the_main_text() {
    let links = "<li><a href=/x>Sports and weather of the week</a></li>".repeat(30);
    for (name, article) in ARTICLES.iter().chain(&STORIES) {
        let page = format!("<body><ul>{links}</ul><article>{}</article></body>", paragraphs(article));
        let (text, extraction) = extracted(&page);
        assert_eq!(extraction, Extraction::Main, "{name}");
        assert!(text.contains(&last_words(article)) && !text.contains("weather"), "{name}: {text}");
    }
}

const OTHER_NOTICES: [(&str, &str); 7] = [
    (
        "french",
        "Nous et nos 849 partenaires stockons et accédons à des informations sur votre appareil, telles que \
         des identifiants uniques de cookies, pour traiter les données personnelles. Avec votre accord, nous et nos \
         partenaires utilisons des cookies ou technologies similaires pour stocker, consulter et traiter des données \
         personnelles telles que votre visite sur ce site internet, les adresses IP et les identifiants de cookie. \
         Certains partenaires ne demandent pas votre consentement pour traiter vos données et se fondent sur leur intérêt \
         commercial légitime. Vous pouvez retirer votre consentement ou vous opposer au traitement des données fondé sur \
         l'intérêt légitime à tout moment en cliquant sur « En savoir plus » ou dans notre politique de confidentialité \
         sur ce site internet. Nos partenaires et nous traitons les données suivantes : publicités et contenu \
         personnalisés, mesure de performance des publicités et du contenu, études d’audience et développement de \
         services.",
    ),
    (
        "spanish",
        "Nosotros y nuestros 849 socios almacenamos y accedemos a información en un dispositivo, como \
         cookies, y procesamos datos personales, como identificadores únicos. Con su consentimiento, nosotros y nuestros \
         socios podemos utilizar datos de localización geográfica precisa e identificación mediante las características \
         de dispositivos. Puede hacer clic para otorgarnos su consentimiento a nosotros y a nuestros socios para que \
         llevemos a cabo el procesamiento previamente descrito. De forma alternativa, puede acceder a información más \
         detallada y cambiar sus preferencias antes de otorgar o negar su consentimiento. Tenga en cuenta que algún \
         procesamiento de sus datos personales puede no requerir de su consentimiento, pero usted tiene el derecho de \
         rechazar tal procesamiento. Sus preferencias se aplicarán solo a este sitio web.",
    ),
    (
        "italian",
        "Noi e i nostri 849 partner archiviamo e accediamo a informazioni su un dispositivo, come gli \
         identificatori unici presenti nei cookie, per il trattamento dei dati personali. Con il tuo consenso, noi e i \
         nostri partner possiamo utilizzare dati di geolocalizzazione precisi e l'identificazione tramite la scansione \
         del dispositivo. Puoi fare clic per consentire a noi e ai nostri partner il trattamento per le finalità sopra \
         descritte. In alternativa puoi accedere a informazioni più dettagliate e modificare le tue preferenze prima di \
         acconsentire o di negare il consenso. Si rende noto che alcuni trattamenti dei dati personali possono non \
         richiedere il tuo consenso, ma hai il diritto di opporti a tale trattamento. Le tue preferenze si applicheranno \
         solo a questo sito web.",
    ),
    (
        "russian",
        "Мы и наши партнеры используем файлы cookie и аналогичные технологии для хранения и обработки \
         персональных данных, таких как уникальные идентификаторы. С вашего согласия мы и наши партнеры можем \
         использовать точные данные о местоположении и идентификацию путем сканирования устройства. Вы можете нажать \
         кнопку, чтобы дать согласие на обработку данных нами и нашими партнерами. Кроме того, вы можете получить более \
         подробную информацию и изменить свои настройки до того, как дать согласие или отказаться от него. Обратите \
         внимание, что для обработки некоторых ваших персональных данных может не требоваться ваше согласие, но вы имеете \
         право возразить против такой обработки.",
    ),
    (
        "japanese",
        "当サイトおよび当社のパートナーは、デバイス上の情報を保存またはアクセスするためにクッキーなどの技術を使用し、固有識別子などの個人データを処理します。 \
         お客様の同意を得て、当社およびパートナーは、正確な位置情報データおよびデバイススキャンによる識別情報を使用することがあります。 \
         クリックすることで、当社およびパートナーによる上記の処理に同意することができます。また、同意または拒否する前に、より詳細な情報を確認し、設定を変更することもできます。 \
         お客様の個人データの一部の処理には同意が必要ない場合がありますが、お客様にはそのような処理に異議を唱える権利があります。",
    ),
    (
        "portuguese",
        "Nós e os nossos parceiros usamos cookies e tecnologias semelhantes para guardar informações no seu \
         dispositivo e tratar dados pessoais. Pode aceitar ou rejeitar estas finalidades e alterar as suas preferências a \
         qualquer momento. Os nossos parceiros medem a publicidade e o conteúdo que você vê.",
    ),
    (
        "polish",
        "Wraz z naszymi partnerami stosujemy pliki cookie i podobne technologie, aby przetwarzać dane \
         osobowe. Państwa zgoda jest dobrowolna i można ją wycofać w ustawieniach. Nasi partnerzy dostarczają \
         spersonalizowane reklamy i prowadzą pomiar reklam oraz statystyki naszych stron.",
    ),
];

const OTHER_ARTICLES: [(&str, &str); 4] = [
    (
        "french",
        "La Commission nationale a infligé jeudi une amende à trois éditeurs qui déposaient des cookies sans \
         consentement. Le bouton de refus était caché derrière deux écrans, a constaté l'autorité, alors qu'un seul clic \
         suffisait pour accepter. Les partenaires publicitaires recevaient des identifiants dès la première visite. \
         L'amende la plus lourde, quarante millions d'euros, frappe un groupe de presse de Lyon. Les éditeurs ont deux \
         mois pour faire appel devant le tribunal.",
    ),
    (
        "spanish",
        "La agencia multó el jueves a tres editoriales por instalar cookies sin permiso de los lectores. El \
         botón para rechazar estaba oculto detrás de dos pantallas, según la resolución, mientras que bastaba un clic \
         para aceptar. La mayor multa recae en un grupo de Barcelona, que anunció un recurso. El ministerio prepara una \
         ley que prohíbe esas prácticas desde enero.",
    ),
    (
        "russian",
        "Суд в Казани оштрафовал трёх издателей за установку cookie без согласия читателей. Кнопка отказа \
         была спрятана за двумя экранами, говорится в решении. Крупнейший штраф получил издательский дом, который уже \
         объявил об обжаловании. Эксперты ожидают, что до конца года проверят ещё сто сайтов.",
    ),
    (
        "italian, a recipe",
        "Cookie al cioccolato: mescola il burro con lo zucchero, aggiungi le uova e la farina. Dividi \
         l'impasto in dodici palline e cuocile per dieci minuti. Lasciale raffreddare prima di servirle. Si conservano \
         per una settimana in una scatola di latta, ma di solito finiscono prima.",
    ),
];

#[test]
fn notices_are_distinguished_from_articles_in_these_languages() {
    for (language, notice) in OTHER_NOTICES {
        assert!(is_notice(notice), "{language}");
    }
    for (language, article) in OTHER_ARTICLES {
        assert!(!is_notice(article), "{language}");
    }
}

#[test]
fn the_sections_of_the_list_are_in_the_order_of_their_use() {
    let firsts = VOCABULARY.topics.each_ref().map(|topic| topic[0]);
    assert_eq!(firsts, ["consent", "cookie", "privacy", "partner", "personalis", "setting"]);
    assert_eq!((VOCABULARY.addresses[0], VOCABULARY.unspaced_addresses[0]), ("we", "我们"));
    assert!(VOCABULARY.topics[0].contains(&"opt out") && VOCABULARY.unspaced_addresses.contains(&"ユーザー"));
}
